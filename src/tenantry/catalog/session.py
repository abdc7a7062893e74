"""The session type of the catalog."""

from tenantry.db.sessions import Session


class CatalogKind:
    """Marks the sessions of the catalog."""


CatalogSession = Session[CatalogKind]
