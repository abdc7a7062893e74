"""The manual: what ``make site`` builds from ``docs`` with Sphinx, and the product serves."""
