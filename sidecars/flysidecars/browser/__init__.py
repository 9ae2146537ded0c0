"""A running browser, driven over the Chrome DevTools Protocol; none is started or installed here.

What decides whether an action may happen (which document this is, what lies at a point) is asked of the
browser itself, never of a script in the page, which the page could answer as it likes.
"""
