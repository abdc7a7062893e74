"""The peer: the same endpoint as the tutorials of FastAPI and SQLAlchemy would have it.

Dependencies, pydantic models, a session for each request, an entity that is changed and
committed. Not from any tutorial, but in its favour: an engine for each tenant is kept, the
tenants are in memory, and there is no access log.
"""

import hashlib
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any
from unicodedata import normalize
from uuid import UUID

import jwt
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, EmailStr, Field
from pydantic.alias_generators import to_camel
from sqlalchemy import DateTime
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from harness.bench.servers.facts import Facts, read_facts
from harness.bench.servers.run import run


class Base(DeclarativeBase):
    """Base of the entities."""


class User(Base):
    """A user of a tenant."""

    __tablename__ = "tenantry_user"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    email: Mapped[str]
    canonical_email: Mapped[str] = mapped_column(unique=True)
    full_name: Mapped[str]
    password_hash: Mapped[str]
    is_active: Mapped[bool]
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    generation: Mapped[int]
    spared_jti: Mapped[str | None]


class Model(BaseModel):
    """Base of everything on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class UpdateProfile(Model):
    """How a user wants to be called and reached."""

    full_name: str = Field(min_length=1, max_length=200)
    email: EmailStr


class Profile(Model):
    """A user as others may see them."""

    id: UUID
    email: str
    full_name: str
    is_active: bool
    created_at: datetime


class Envelope(Model):
    """Every answer."""

    success: bool = True
    data: Profile


class Tenant(BaseModel):
    """A tenant, and where its database is."""

    id: UUID
    url: str


app = FastAPI()


async def get_tenant(request: Request, x_api_key: Annotated[str | None, Header()] = None) -> Tenant:
    """Return the tenant of the API key."""
    facts: Facts = request.app.state.facts
    found = facts.tenants.get(hashlib.sha256((x_api_key or "").encode()).hexdigest())
    if found is None:
        raise HTTPException(401, "The API key is missing or invalid.")
    return Tenant(id=found["id"], url=found["url"])


async def get_claims(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
) -> dict[str, Any]:
    """Return what the token says."""
    facts: Facts = request.app.state.facts
    token = credentials.credentials
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            facts.keys[jwt.get_unverified_header(token)["kid"]],
            algorithms=[facts.algorithm],
            issuer=facts.issuer,
            audience=facts.audience,
        )
    except (jwt.PyJWTError, KeyError) as error:
        raise HTTPException(401, "The token is invalid.") from error
    return claims


async def get_session(
    request: Request, tenant: Annotated[Tenant, Depends(get_tenant)]
) -> AsyncIterator[AsyncSession]:
    """Open a session on the tenant's database."""
    engines: dict[UUID, AsyncEngine] = request.app.state.engines
    engine = engines.get(tenant.id)
    if engine is None:
        url = tenant.url.replace("postgresql://", "postgresql+asyncpg://")
        engine = engines[tenant.id] = create_async_engine(url, pool_size=4, max_overflow=0)
    async with async_sessionmaker(engine, expire_on_commit=False)() as session:
        yield session


async def get_user(
    session: Annotated[AsyncSession, Depends(get_session)],
    tenant: Annotated[Tenant, Depends(get_tenant)],
    claims: Annotated[dict[str, Any], Depends(get_claims)],
) -> User:
    """Return the user behind the token."""
    if claims["TenantId"] != str(tenant.id):
        raise HTTPException(403, "You are not allowed to do this.")
    user = await session.get(User, UUID(claims["nameid"]))
    if user is None or user.generation != claims["generation"]:
        raise HTTPException(401, "The session has ended.")
    if not user.is_active:
        raise HTTPException(403, "You are not allowed to do this.")
    return user


@app.get("/")
async def ready() -> dict[str, bool]:
    """Return that requests are answered."""
    return {"success": True}


@app.put("/api/tenant/auth/profile")
async def update_profile(
    update: UpdateProfile,
    user: Annotated[User, Depends(get_user)],
    session: Annotated[AsyncSession, Depends(get_session)],
) -> Envelope:
    """Change the caller's own name and address."""
    user.full_name = update.full_name
    user.email = update.email
    user.canonical_email = normalize("NFC", update.email).lower()
    try:
        await session.commit()
    except IntegrityError as error:
        raise HTTPException(409, "This e-mail address is already in use.") from error
    return Envelope(data=Profile.model_validate(user))


@app.exception_handler(HTTPException)
async def refuse(_request: Request, error: HTTPException) -> JSONResponse:
    """Answer in the envelope."""
    return JSONResponse({"success": False, "message": error.detail}, error.status_code)


if __name__ == "__main__":
    app.state.facts = read_facts(sys.argv[2])
    app.state.engines = {}
    run(app, int(sys.argv[1]))
