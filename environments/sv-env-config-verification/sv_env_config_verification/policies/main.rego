# Findings.
#
# Everything that the rules below report, one flat set:
# {"rule", "id", "file", "line", "message"}, where "id" is the identity of the object.
package sv

import rego.v1

import data.sv.kubernetes
import data.sv.terraform

findings := kubernetes.findings | terraform.findings
