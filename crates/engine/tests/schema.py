"""Validates case files against a JSON Schema. Arguments: the schema, then the case files.

Prints one line per file: its name, and "valid" or the first error.
"""

import json
import sys
import tomllib

import jsonschema

with open(sys.argv[1], "rb") as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for path in sys.argv[2:]:
    with open(path, "rb") as file:
        case = tomllib.load(file)
    error = jsonschema.exceptions.best_match(validator.iter_errors(case))
    print(f"{path}\t{'valid' if error is None else 'error: ' + error.message.splitlines()[0]}")
