"""The manifests for Kubernetes are right about the program that they start."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import reference

from tenantry.api.access_levels import OPEN
from tenantry.api.table import ENDPOINTS
from tenantry.cli.serving.signals import EXIT_SECONDS_MAX
from tenantry.settings import PREFIX, Settings
from tests.conftest import SECRET_KEY

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
MANIFESTS: list[dict[str, Any]] = [
    one
    for name in KUSTOMIZATION["resources"]
    for one in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
]
PODS: dict[str, dict[str, Any]] = {
    one["metadata"]["name"]: one["spec"]["template"]["spec"]
    for one in MANIFESTS
    if "template" in one["spec" if "spec" in one else "metadata"]
}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
[SETTINGS] = [one["data"] for one in MANIFESTS if one["kind"] == "ConfigMap"]
COMMANDS = {name.removeprefix("tenantry ") for name in reference.commands()}
OPEN_PATHS = {one.path for one in ENDPOINTS if one.level is OPEN and one.method == "GET"}


def container(name: str) -> dict[str, Any]:
    [one] = PODS[name]["containers"]
    return dict(one)


def probes(name: str) -> dict[str, tuple[str, str]]:
    return {
        kind: (one["httpGet"]["path"], one["httpGet"]["port"])
        for kind, one in container(name).items()
        if kind.endswith("Probe")
    }


def test_has_every_file():
    """Each manifest of the folder is listed; another one would not be applied."""
    listed = {*KUSTOMIZATION["resources"], "kustomization.yaml"}

    assert {one.name for one in FOLDER.iterdir()} == listed
    assert set(PODS) == {"tenantry-api", "tenantry-migrate", "tenantry-worker"}


def test_starts_existing_commands():
    assert container("tenantry-api")["args"] == ["serve"]
    assert container("tenantry-worker")["args"] == ["worker"]
    assert {"serve", "worker"} <= COMMANDS
    [migrate] = container("tenantry-migrate")["command"]
    assert f"/usr/local/bin/{migrate}\n" in DOCKERFILE


def test_settings_are_valid_and_no_secrets():
    """Each variable is a setting of the product, and the Secret is only named."""
    given = {
        key.removeprefix(PREFIX).lower(): value
        for key, value in SETTINGS.items()
        if key.startswith(PREFIX)
    }
    known = {name.removeprefix(PREFIX).lower() for name in reference.setting_names()}

    assert set(given) <= known
    assert set(SETTINGS) - {"ADMIN_EMAIL"} == {f"{PREFIX}{key.upper()}" for key in given}
    assert Settings(
        **given, catalog_url="postgresql://tenantry@db/catalog", secret_key=SECRET_KEY
    ).metrics_port
    assert not [one for one in MANIFESTS if one["kind"] == "Secret"]
    for name in PODS:
        sources = container(name)["envFrom"]
        assert sources == [
            {"configMapRef": {"name": "tenantry"}},
            {"secretRef": {"name": "tenantry"}},
        ]


def test_probes_ask_real_paths():
    """A pod without a catalog takes no requests, but is not restarted for that."""
    assert probes("tenantry-api") == {
        "startupProbe": ("/livez", "http"),
        "readinessProbe": ("/readyz", "http"),
        "livenessProbe": ("/livez", "http"),
    }
    assert {"/livez", "/readyz"} <= OPEN_PATHS
    assert set(probes("tenantry-worker").values()) == {("/metrics", "metrics")}
    for name in ("tenantry-api", "tenantry-worker"):
        ports = {one["name"]: one["containerPort"] for one in container(name)["ports"]}
        assert ports.pop("metrics") == int(SETTINGS["TENANTRY_METRICS_PORT"])
        assert not ports or f"EXPOSE {ports['http']}\n" in DOCKERFILE


def test_allows_the_time_of_a_shutdown():
    api = PODS["tenantry-api"]
    paused = container("tenantry-api")["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert api["terminationGracePeriodSeconds"] > EXIT_SECONDS_MAX + paused
    for pod in PODS.values():
        assert pod["terminationGracePeriodSeconds"] > EXIT_SECONDS_MAX


@pytest.mark.parametrize("name", PODS)
def test_is_restricted(name: str):
    """As the level `restricted` of the Pod Security Standards demands; the image is read-only."""
    pod, one = PODS[name], container(name)

    [user] = re.findall(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)
    assert pod["securityContext"]["runAsUser"] == int(user)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"memory", "ephemeral-storage"} <= one["resources"]["limits"].keys()
    mounted = {mount["mountPath"] for mount in one["volumeMounts"]}
    assert {"/data", "/data/backups", "/tmp"} <= mounted  # noqa: S108 - of the container


def test_selectors_find_their_pods():
    """Of budgets, services and policies: a typing error would protect nothing."""
    labels = {
        one["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]
        for one in MANIFESTS
        if one["kind"] in {"Deployment", "Job"}
    }
    budgets = [one for one in MANIFESTS if one["kind"] == "PodDisruptionBudget"]

    text = "".join(
        (FOLDER / name).read_text(encoding="utf-8") for name in KUSTOMIZATION["resources"]
    )
    assert set(re.findall(r"component: (\w+)", text)) == labels == {"api", "migrate", "worker"}
    assert len(budgets) == 2
    [service] = [one for one in MANIFESTS if one["kind"] == "Service"]
    assert service["spec"]["ports"][0]["targetPort"] == "http"


def test_the_network_is_closed_but_for_what_is_named():
    """Everything is denied first; metrics and requests each have one origin."""
    policies = {
        one["metadata"]["name"]: one["spec"] for one in MANIFESTS if one["kind"] == "NetworkPolicy"
    }

    none = policies["tenantry-none"]
    assert none == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, port in (("tenantry-requests", "http"), ("tenantry-metrics", "metrics")):
        [rule] = policies[name]["ingress"]
        assert rule["ports"] == [{"port": port}]
        assert len(rule["from"]) == 1
