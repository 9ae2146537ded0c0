"""Packages of sidecars: checked, staged, reviewed, applied, rolled back and removed, so that a kill or a loss
of power at any moment leaves the old or the new version.

`area` names the folders and opens them. `metadata` and `tree` read a package. `stage` unpacks one.
`transition` changes what is installed, `recovery` finishes or undoes a change that was cut off, and `records`
keeps what is known of each package. Nothing here starts a program or trusts an entry.
"""
