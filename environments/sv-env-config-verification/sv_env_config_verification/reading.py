"""Files in, Shapes out: what every adapter does first."""

from collections import OrderedDict
from collections.abc import Mapping

from sv_env_config_verification.inputs import InputError, check_files, language
from sv_env_config_verification.manifests import read_manifests
from sv_env_config_verification.shapes import Document, Shapes
from sv_env_config_verification.terraform import TerraformParser
from sv_shared.sarif import Notice
from sv_shared.tool_cache import content_hash

_KEPT = 256
"""Workspaces whose shapes are kept: three tools, and one after the other, look at the same one."""


class Reader:
    """Reads workspaces. One event loop uses an instance; `close` it in the end.

    Args:
        terraform: the parser to use; None: one of its own.
    """

    def __init__(self, terraform: TerraformParser | None = None) -> None:
        self._terraform = terraform or TerraformParser()
        self._kept: OrderedDict[str, Shapes] = OrderedDict()

    async def read(self, files: Mapping[str, str]) -> Shapes:
        """The objects in a workspace.

        Args:
            files: text by file name: .yaml, .yml, .json, .tf, .tfvars.

        Returns:
            Shapes, which the caller must not change.

        Raises:
            InputError: a file can't be judged; where several can't, all that are found at one step are told.
            ToolError: the Terraform parser does not work.
        """
        key = content_hash(*(part for name in sorted(files) for part in (name, files[name])))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        check_files(files)
        documents: list[Document] = []
        notices: list[Notice] = []
        for name in sorted(files):
            if language(name) == "yaml":
                try:
                    documents += read_manifests(name, files[name])
                except InputError as error:
                    notices += error.notices
        if notices:
            raise InputError(notices)
        hcl = {name: text for name, text in files.items() if language(name) != "yaml"}
        resources = await self._terraform.parse(hcl) if hcl else []
        shapes = Shapes(tuple(documents), tuple(resources))
        self._kept[key] = shapes
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return shapes

    async def close(self) -> None:
        """End the Terraform parser's process."""
        await self._terraform.close()
