# A tag can be moved to another image. `--build-arg PYTHON_IMAGE=python@sha256:...` selects exactly
# one; see docs/howto/deploy.md.
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm
# Of the same release of Debian: it has the source of the client programs of PostgreSQL.
ARG POSTGRES_IMAGE=postgres:18.1-bookworm

# The pip of the first stage fills the virtual environment, which has none itself.
FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/tenantry
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# With S3 and traces, which settings switch on.
COPY requirements/extras.lock ./
RUN python -m pip --python /opt/tenantry/bin/python install \
      --require-hashes --only-binary :all: --requirement extras.lock
COPY pyproject.toml LICENSE README.md ./
COPY src ./src
RUN python -m pip --python /opt/tenantry/bin/python install \
      --no-index --no-deps --no-build-isolation . \
 && python -m pip --python /opt/tenantry/bin/python uninstall --yes flit-core

FROM ${POSTGRES_IMAGE} AS postgres

FROM ${PYTHON_IMAGE}
# Backups run pg_dump and pg_restore, which must not be older than the server.
ARG POSTGRES_MAJOR=18
COPY --from=postgres /usr/local/share/keyrings/postgres.gpg.asc /usr/local/share/keyrings/
COPY --from=postgres /etc/apt/sources.list.d/pgdg.list /etc/apt/sources.list.d/
# The release of Debian and the major version of PostgreSQL are pinned; minor ones are to be new.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends postgresql-client-${POSTGRES_MAJOR} \
 && rm -rf /var/lib/apt/lists/*
RUN python -m pip uninstall --yes --quiet setuptools wheel pip \
 && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin tenantry \
 && install --directory --owner tenantry --group tenantry --mode 0700 /data /data/backups
COPY --from=build /opt/tenantry /opt/tenantry
# What compose.yaml and the Job of Kubernetes run before the service.
COPY deploy/migrate.sh /usr/local/bin/tenantry-migrate
ENV PATH=/opt/tenantry/bin:$PATH \
    TENANTRY_HOST=0.0.0.0 \
    TENANTRY_PORT=8000 \
    TENANTRY_DATA_DIR=/data \
    TENANTRY_PG_TOOLS=/usr/lib/postgresql/${POSTGRES_MAJOR}/bin
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ['TENANTRY_PORT']}/readyz\", timeout=4)"]
ENTRYPOINT ["tenantry"]
CMD ["serve"]
