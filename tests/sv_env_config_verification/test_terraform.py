"""Terraform in, resources out: values, addresses, modules, and a parser that hostile text can't take down."""

import asyncio
import json
import re
import time

import pytest
import pytest_asyncio

from sv_env_config_verification.inputs import InputError
from sv_env_config_verification.reading import Reader
from sv_env_config_verification.terraform import TerraformParser

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")

MAIN = """
variable "acl" {
  default = "public-read"
}
variable "unset" {}
locals {
  both = 2
}
resource "aws_s3_bucket" "logs" {
  count  = local.both
  bucket = "logs-${count.index}"
  acl    = var.acl
  policy = jsonencode({ Action = "*" })
  versioning {
    enabled = true
  }
}
resource "aws_s3_bucket_policy" "p" {
  bucket = aws_s3_bucket.other.id
  text   = "see ${aws_s3_bucket.other.id}/*"
  secret = var.unset
  list   = [aws_s3_bucket.other.id]
}
resource "aws_s3_bucket" "other" {
  ingress {
    port = 1
  }
  ingress {
    port = 2
  }
  dynamic "egress" {
    for_each = [3, 4]
    content {
      port = egress.value
    }
  }
}
data "aws_iam_policy_document" "d" {
  statement {
    actions = ["*"]
  }
}
"""


@pytest_asyncio.fixture
async def parser():
    own = TerraformParser(timeout_s=5)
    yield own
    await own.close()


async def test_values_are_resolved_and_blocks_are_lists(parser):
    found = await parser.parse({"m.tf": MAIN})
    ids = [r.id for r in found]
    assert ids == [
        "aws_s3_bucket.logs",
        "aws_s3_bucket.logs",
        "aws_s3_bucket_policy.p",
        "aws_s3_bucket.other",
        "data.aws_iam_policy_document.d",
    ]
    logs = found[0]
    assert [r.attributes["bucket"] for r in found[:2]] == ["logs-0", "logs-1"]
    assert (logs.file, logs.type, logs.name) == ("m.tf", "aws_s3_bucket", "logs")
    lines = MAIN.splitlines()
    assert logs.line == lines.index('resource "aws_s3_bucket" "logs" {') + 1
    assert lines[logs.last_line - 1] == "}"
    assert logs.attributes["acl"] == "public-read"
    assert logs.attributes["versioning"] == [{"enabled": True}]
    assert json.loads(logs.attributes["policy"]) == {"Action": "*"}
    other = next(r for r in found if r.name == "other")
    assert other.attributes["ingress"] == [{"port": 1}, {"port": 2}]
    assert other.attributes["egress"] == [{"port": 3}, {"port": 4}]
    document = next(r for r in found if r.name == "d")
    assert (document.type, document.attributes["statement"]) == (
        "aws_iam_policy_document",
        [{"actions": ["*"]}],
    )


async def test_references_are_addresses_and_no_random_id_is_left(parser):
    found = {r.id: r for r in await parser.parse({"m.tf": MAIN})}
    policy = found["aws_s3_bucket_policy.p"]
    assert policy.attributes["bucket"] == {"__attribute__": "aws_s3_bucket.other.*"}
    assert policy.attributes["text"] == "see ${aws_s3_bucket.other.*}/*"
    assert policy.attributes["list"] == [{"__attribute__": "aws_s3_bucket.other.*"}]
    assert policy.attributes["secret"]["__attribute__"] == "var.unset"
    assert "aws_s3_bucket.other" in policy.references
    assert not UUID.search(json.dumps([r.attributes for r in found.values()]))
    assert all("id" not in r.attributes for r in found.values())


async def test_equal_text_gives_equal_resources(parser):
    first, second = await parser.parse({"m.tf": MAIN}), await parser.parse({"m.tf": MAIN})
    assert first == second


async def test_a_local_module_is_told_once_with_its_variables(parser):
    module = 'variable "enc" {}\nresource "aws_ebs_volume" "v" {\n  encrypted = var.enc\n}\n'
    call = 'module "m" {\n  source = "%s"\n  enc = %s\n}\n'
    found = await parser.parse(
        {"main.tf": call % ("./vol", "false"), "vol/v.tf": module, "two/main.tf": call % ("../vol", "true")}
    )
    volumes = [r for r in found if r.type == "aws_ebs_volume"]
    assert {(r.id, r.file, r.attributes["encrypted"]) for r in volumes} == {
        ("module.m.aws_ebs_volume.v", "vol/v.tf", False),
        ("module.m.aws_ebs_volume.v", "vol/v.tf", True),
    }
    assert [r.attributes["source"] for r in found if r.id == "module.m"] == ["./vol", "../vol"]


async def test_variable_files_count(parser):
    main = 'variable "e" {}\nvariable "f" {}\nresource "a" "b" {\n  e = var.e\n  f = var.f\n}\n'
    found = await parser.parse({"main.tf": main, "terraform.tfvars": "e = 1\n", "x.auto.tfvars": 'f = "z"\n'})
    assert found[0].attributes == {"e": 1, "f": "z"}


async def test_a_remote_module_is_not_fetched(parser):
    text = (
        'module "m" {\n  source = "git::https://127.0.0.1:9/x.git"\n}\nmodule "n" {\n  source = "a/b/c"\n}\n'
    )
    started = time.monotonic()
    assert [(r.id, r.type) for r in await parser.parse({"m.tf": text})] == [
        ("module.m", "module"),
        ("module.n", "module"),
    ]
    assert time.monotonic() - started < 4


async def test_files_of_this_machine_are_not_read(parser, tmp_path):
    (tmp_path / "secret.tf").write_text('resource "leak" "x" {\n  a = 1\n}\n')
    found = await parser.parse({"m.tf": f'resource "a" "b" {{\n  x = file("{tmp_path}/secret.tf")\n}}\n'})
    assert found[0].attributes["x"] is None
    path = "../.." + str(tmp_path)
    with pytest.raises(InputError, match="bad-name"):
        await parser.parse({"m.tf": f'module "m" {{\n  source = "{path}"\n}}\n'})


@pytest.mark.parametrize(
    ("text", "label", "line"),
    [
        ('resource "a" "b" {\n  x = 1\n', "invalid-hcl", None),
        ('resource "a" "b" {\n  x = 1\n  x = 2\n}\n', "invalid-hcl", 3),
        ('resource "a" "b" {\n}\nresource "a" "b" {\n}\n', "duplicate-key", 3),
        ('resource "a" {\n}\n', "invalid-hcl", 1),
        ('{"a": 1}', "invalid-hcl", 1),
        ("\x7fELF garbage", "invalid-hcl", 1),
        ('resource "a" "b" {\n  x = ' + "[" * 5000 + "]" * 5000 + "\n}\n", "too-complex", 2),
        ('resource "a" "b" {\n  x = pow(10, 1000000000)\n}\n', "invalid-hcl", None),
    ],
    ids=["unclosed", "twice", "two of a name", "no name", "json", "binary", "deep", "infinite"],
)
async def test_bad_text_is_labelled(parser, text, label, line):
    with pytest.raises(InputError) as caught:
        await parser.parse({"sub/m.tf": text})
    notice = caught.value.notices[0]
    assert (notice.label, notice.file) == (label, "sub/m.tf")
    if line is not None:
        assert notice.line == line


BOMBS = {
    "count": 'resource "a" "b" {\n  count = 10000000\n}\n',
    "text doubled": 'locals {\n  l0 = "aaaaaaaaaa"\n'
    + "".join(f'  l{i} = "${{local.l{i - 1}}}${{local.l{i - 1}}}"\n' for i in range(1, 40))
    + '}\nresource "a" "b" {\n  x = local.l39\n}\n',
}


@pytest.mark.parametrize("name", list(BOMBS))
async def test_a_bomb_is_labelled_and_the_parser_lives_on(name):
    parser = TerraformParser(timeout_s=2)
    started = time.monotonic()
    with pytest.raises(InputError, match="too-complex"):
        await parser.parse({"m.tf": BOMBS[name]})
    assert time.monotonic() - started < 15
    assert len(await parser.parse({"m.tf": MAIN})) == 5
    await parser.close()


async def test_a_killed_process_is_replaced(parser):
    await parser.parse({"m.tf": MAIN})
    assert parser._child is not None
    parser._child.process.kill()
    await parser._child.process.wait()
    assert len(await parser.parse({"m.tf": MAIN})) == 5


async def test_a_cancelled_parse_leaves_no_answer_behind(parser):
    """The next question must not be given the cancelled one's answer."""
    await parser.parse({"m.tf": MAIN})
    task = asyncio.create_task(parser.parse({"m.tf": BOMBS["count"]}))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(await parser.parse({"m.tf": MAIN})) == 5


async def test_many_at_once_get_their_own_answers(parser):
    texts = [f'resource "a" "n{i}" {{\n  x = {i}\n}}\n' for i in range(20)]
    found = await asyncio.gather(*(parser.parse({"m.tf": text}) for text in texts))
    assert [rows[0].attributes["x"] for rows in found] == list(range(20))


async def test_the_reader_takes_both_languages_and_tells_all_bad_files():
    reader = Reader()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    shapes = await reader.read({"b.yaml": pod, "a.yaml": pod.replace("a}", "z}"), "m.tf": MAIN})
    assert [d.file for d in shapes.kubernetes] == ["a.yaml", "b.yaml"]
    assert len(shapes.terraform) == 5
    assert await reader.read({"m.tf": MAIN, "a.yaml": pod.replace("a}", "z}"), "b.yaml": pod}) is shapes
    with pytest.raises(InputError) as caught:
        await reader.read({"a.yaml": "a: [", "b.yaml": "a: 1", "c.yaml": pod})
    assert {notice.file for notice in caught.value.notices} == {"a.yaml", "b.yaml"}
    await reader.close()


@pytest.mark.real_data
async def test_real_terraform_is_read(parser, shared_data):
    folder = shared_data / "E2" / "terragoat"
    paths = [path for path in folder.rglob("*.tf") if path.is_file()]
    counts = [len(await parser.parse({path.name: path.read_text()})) for path in paths]
    written = [len(re.findall(r"^(?:resource|data|module) +\S", path.read_text(), re.M)) for path in paths]
    assert len(paths) > 30
    assert counts == written
