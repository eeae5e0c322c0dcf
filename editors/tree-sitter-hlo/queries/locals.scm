; Names of instructions are those of their computation.
[(body) (inline_computation)] @local.scope

(instruction name: (name) @local.definition)
(operand name: (name) @local.reference)
