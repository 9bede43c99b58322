# AWS: policies, as JSON text or as policy documents.
package sv.terraform

import rego.v1

policy_attributes := {
	"aws_iam_policy": ["policy"],
	"aws_iam_role_policy": ["policy"],
	"aws_iam_user_policy": ["policy"],
	"aws_iam_group_policy": ["policy"],
	"aws_ssoadmin_permission_set_inline_policy": ["inline_policy"],
	"aws_iam_role": ["assume_role_policy"],
	"aws_s3_bucket": ["policy"],
	"aws_s3_bucket_policy": ["policy"],
	"aws_sqs_queue": ["policy"],
	"aws_sqs_queue_policy": ["policy"],
	"aws_sns_topic": ["policy"],
	"aws_sns_topic_policy": ["policy"],
	"aws_ecr_repository_policy": ["policy"],
	"aws_kms_key": ["policy"],
}

# {resource, effect, actions, resources, everyone, conditional}, whichever way it was written.
statements contains entry if {
	some type, names in policy_attributes
	some resource in resources({type})
	some name in names
	policy := text(resource.attributes[name])
	json.is_valid(policy)
	some statement in as_list(json.unmarshal(policy).Statement)
	is_object(statement)
	entry := {
		"resource": resource,
		"effect": object.get(statement, "Effect", ""),
		"actions": as_list(object.get(statement, "Action", [])),
		"resources": as_list(object.get(statement, "Resource", [])),
		"everyone": names_everyone(object.get(statement, "Principal", [])),
		"conditional": is_conditional(statement),
	}
}

statements contains entry if {
	some resource in data_sources("aws_iam_policy_document")
	some statement in blocks(resource.attributes, "statement")
	entry := {
		"resource": resource,
		"effect": setting(statement, "effect", "Allow"),
		"actions": as_list(object.get(statement, "actions", [])),
		"resources": as_list(object.get(statement, "resources", [])),
		"everyone": document_names_everyone(statement),
		"conditional": has_condition(statement),
	}
}

default is_conditional(_) := false

is_conditional(statement) if {
	is_object(statement.Condition)
	some operator, _ in statement.Condition
	restricts(operator)
}

# A ForAllValues test holds where the request has no such key at all.
restricts(operator) if not startswith(operator, "ForAllValues:")

default has_condition(_) := false

has_condition(statement) if hides(statement, "condition")

has_condition(statement) if {
	some condition in blocks(statement, "condition")
	not is_for_all(condition)
}

is_for_all(condition) if startswith(text(condition.test), "ForAllValues:")

default names_everyone(_) := false

names_everyone(principal) if principal == "*"

names_everyone(principal) if "*" in as_list(principal.AWS)

default document_names_everyone(_) := false

document_names_everyone(statement) if {
	some principal in blocks(statement, "principals")
	principal.type in {"AWS", "*"}
	"*" in as_list(principal.identifiers)
}

findings contains finding("tf.aws-iam-admin", entry.resource, "allows every action on every resource") if {
	some entry in statements
	entry.effect == "Allow"
	"*" in entry.actions
	"*" in entry.resources
	not entry.resource.type in resource_policies
}

# There `Resource: "*"` is the resource that the policy is attached to.
resource_policies := {"aws_kms_key", "aws_ecr_repository_policy", "aws_sqs_queue", "aws_sqs_queue_policy", "aws_sns_topic", "aws_sns_topic_policy"}

sensitive_services := {"iam", "sts", "organizations", "kms", "secretsmanager", "ssm", "s3", "ec2", "lambda", "rds", "dynamodb"}

findings contains finding("tf.aws-iam-service-wildcard", entry.resource, sprintf("allows %s on every resource", [action])) if {
	some entry in statements
	entry.effect == "Allow"
	"*" in entry.resources
	some action in entry.actions
	endswith(text(action), ":*")
	lower(trim_suffix(action, ":*")) in sensitive_services
	not entry.resource.type in resource_policies
}

findings contains finding("tf.aws-open-policy", entry.resource, "allows everyone, without a condition") if {
	some entry in statements
	entry.effect == "Allow"
	entry.everyone
	not entry.conditional
}
