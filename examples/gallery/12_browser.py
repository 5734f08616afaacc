"""
A site joins from its browser
=============================

A site that may install nothing opens the link of its invitation and chooses its table. The browser reads the table,
clusters its rows, and shows what would leave before anything does.

Nothing runs on this page: the pictures were taken in Chromium, with a coordinator and a made-up table of 412 patients.

.. image:: ../images/browser-leaves.png
   :alt: One message of 1,224 bytes: three centers, how many rows are behind each, and every number in it
   :width: 620px

When enough sites have joined, the page shows what the clusters are, and saves the table with one more column.

.. image:: ../images/browser-answer.png
   :alt: Three clusters with the columns that set them apart, and how many rows of this site are in each
   :width: 620px

See :doc:`how to join from a browser <../how-to-browser>`.
"""

# sphinx_gallery_thumbnail_path = 'images/browser-leaves.png'
