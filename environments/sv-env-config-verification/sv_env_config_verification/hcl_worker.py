"""The process in which Terraform is parsed: one request a line in, one answer a line out.

tfparse runs a Go library that expands `count` and `for_each` and evaluates expressions. Hostile text makes it
use all memory, never end, or end the whole process, so it gets a process of its own, with a memory limit.

Request: {"folder": path, "vars": [paths]}. Answer: {"parsed": ...} or {"error": text}. Ends with its input.
"""

import json
import os
import resource
import sys

MEMORY_BYTES = 1 << 30
"""What it may hold. Address space is no measure of it: Go reserves a lot and uses little."""


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What the Go library prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import tfparse

    for line in sys.stdin:
        request = json.loads(line)
        try:
            parsed = tfparse.load_from_path(
                request["folder"], stop_on_hcl_error=True, allow_downloads=False, vars_paths=request["vars"]
            )
            answer = json.dumps({"parsed": parsed}, allow_nan=False)
        except tfparse.ParseError as error:
            answer = json.dumps({"error": str(error)})
        answers.write(answer + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
