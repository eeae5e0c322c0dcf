"""Partitioning of annotated programs: from shardings of whole arrays to one program per device."""
