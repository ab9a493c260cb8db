"""The reference of the site: which names there are, what is known of each, its example, and its page as Markdown.

tools/site.py writes the pages; tests/test_reference.py runs the examples. docs/inside/documentation.md tells where the words come from.
"""
