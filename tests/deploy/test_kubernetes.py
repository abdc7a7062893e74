"""The manifests are what a cluster accepts; no cluster is needed to check that."""

from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, tool

KUSTOMIZATION = str(DEPLOY / "kubernetes")
# The oldest with what they use (`preStop.sleep`), and the newest that the validator knows.
VERSIONS = ("1.30", "1.37")


class TestManifests:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_are_valid_for_the_schemas_of_kubernetes(self, version: str, tmp_path: Path):
        """Also strictly: an unknown member would have no effect, and nobody would notice."""
        built = tmp_path / "built.yaml"
        built.write_text(tool("kubectl", "kustomize", KUSTOMIZATION), encoding="utf-8")

        checked = tool(
            "kubernetes-validate", "--strict", "--kubernetes-version", version, str(built)
        )

        assert checked.count(" passed for ") == built.read_text(encoding="utf-8").count("\nkind: ")

    def test_name_one_image(self):
        built = tool("kubectl", "kustomize", KUSTOMIZATION)

        images = {line.split()[-1] for line in built.splitlines() if " image: " in line}
        assert images == {"registry.example.com/tenantry:0.1.0"}
