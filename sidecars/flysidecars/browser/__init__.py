"""Drives a browser that already runs, over the Chrome DevTools Protocol. No browser is started or installed.

Facts on which an action depends (which document is loaded, which element lies at a point) come from the
browser itself and not from a script in the page: the page could make a script return anything.
"""
