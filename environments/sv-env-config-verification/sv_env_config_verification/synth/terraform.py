"""Secure Terraform configurations: one cloud's templates, its provider, and variables."""

from sv_env_config_verification.synth.blocks import Builder
from sv_env_config_verification.synth.model import Blocks, Item, Scene
from sv_env_config_verification.synth.names import Names
from sv_env_config_verification.synth.terraform_aws import FAMILIES as AWS
from sv_env_config_verification.synth.terraform_other import FAMILIES as OTHER

FAMILIES = (*AWS, *OTHER)
_PROVIDERS = {"aws": "aws", "google": "google", "azure": "azurerm"}
_VERSIONS = {"aws": "~> 5.70", "google": "~> 6.10", "azurerm": "~> 4.10"}


def cloud(family: str) -> str:
    """The cloud of a template."""
    return family.split("-")[0]


def terraform_scene(names: Names, families: tuple[str, ...]) -> Scene:
    """A secure configuration made of templates.

    Args:
        names: draws what it is made of.
        families: from FAMILIES, all of one cloud; one may come twice.
    """
    builder = Builder(names)
    for number, family in enumerate(families):
        builder.group = f"{family.split('-')[1]}{number or ''}"
        (AWS | OTHER)[family](builder)
    provider = _PROVIDERS[cloud(families[0])]
    head = []
    if names.some(0.5):
        wanted = {provider: {"source": f"hashicorp/{provider}", "version": _VERSIONS[provider]}}
        body = {"required_version": ">= 1.9", "required_providers": Blocks([wanted])}
        head.append(Item("terraform", body, ("terraform",), "main"))
    if names.some(0.5):
        region = {
            "description": "Where it runs",
            "default": names.pick(("eu-west-1", "europe-west1", "westeurope")),
        }
        head.append(Item("var.region", region, ("variable", "region"), "main"))
    return Scene("terraform", families, (*head, *builder.items), tuple(builder.intent), tuple(builder.facts))
