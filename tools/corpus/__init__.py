"""The text that the course's own language model learns from: fetched, checked, cleaned, encoded, packed.

    python -m tools.corpus BUILD_FOLDER          everything, in a folder outside the repository; README.md has the layout

Nothing of the text enters the repository: only the tokenizer, a list of what was read, and its licences.
"""
