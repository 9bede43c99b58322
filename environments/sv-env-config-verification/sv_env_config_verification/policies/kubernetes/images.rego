# Which image runs.
package sv.kubernetes

import rego.v1

findings contains container_finding("k8s.image-latest-tag", entry, sprintf("image %s has no fixed tag", [image])) if {
	some entry in containers
	image := entry.container.image
	is_string(image)
	tag_of(image) in {"", "latest"}
}

findings contains container_finding("k8s.image-not-pinned", entry, sprintf("image %s has no digest", [image])) if {
	some entry in containers
	image := entry.container.image
	is_string(image)
	not has_digest(image)
	not tag_of(image) in {"", "latest"}
}

has_digest(image) if regex.match(`@sha256:[0-9a-f]{64}$`, image)

# The colon of a registry's port stands before the last slash. With a digest, that follows the tag: `latest@sha256`.
tag_of(image) := tag if {
	parts := split(image, "/")
	last := parts[count(parts) - 1]
	pieces := split(last, ":")
	tag := pieces[1]
} else := ""
