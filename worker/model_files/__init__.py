"""What the files of a model directory say, read without running anything of it.

Directories come from administrators, hubs and half-finished downloads: every size, depth and link is bounded,
and what is wrong is named by its file.
"""
