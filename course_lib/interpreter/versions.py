"""Which Triton versions the interpreter knows. Nothing of Triton is imported here: an unknown one may lack what we build on."""

KNOWN_VERSIONS = ("3.6", "3.7")


def refusal(version: str) -> str:
    """ "" for a Triton version that the interpreter knows, else a sentence.

    version  triton.__version__: "3.7.1", "3.6.0+git1234"
    """
    if version.startswith(tuple(f"{known}." for known in KNOWN_VERSIONS)):
        return ""
    known = " and ".join(KNOWN_VERSIONS)
    return (
        f"Triton {version} is not known to the course's interpreter (known: {known}), so kernels run in Triton's own: "
        f"bf16 and fp8 numbers are wrong there, and nothing is counted or checked. Install triton=={KNOWN_VERSIONS[-1]}.*."
    )
