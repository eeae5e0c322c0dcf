/**
 * The grammar of HLO text for tree-sitter.
 *
 * It follows grammar/hlo.lark and accepts more: opcodes, attributes and element types are any
 * words, and the value of an attribute is any nesting of brackets, so that new ones need no change
 * here. queries/highlights.scm, generated from hloc's tables, says which words are known.
 */

/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

const IDENTIFIER = /[A-Za-z_][A-Za-z0-9_.\-]*/;
const PADDING = "-?[0-9]+_-?[0-9]+(_[0-9]+)?";

const commaSep = (rule) => optional(seq(rule, repeat(seq(",", rule))));

module.exports = grammar({
  name: "hlo",

  extras: ($) => [/[ \t\r\n]/, $.comment],

  word: ($) => $.identifier,

  conflicts: ($) => [
    [$.array_shape], // `{` after a shape begins its layout, or the body of a computation
    [$.tuple_shape, $.literal_tuple], // `()` is both
  ],

  rules: {
    // A file may hold several modules; what stands before the first header is one without a header.
    source_file: ($) => seq(repeat($._part), repeat($.module)),
    module: ($) => seq($.header, repeat($._part)),
    header: ($) =>
      seq("HloModule", field("name", $._name), optional(":"), repeat($._attribute)),
    _part: ($) =>
      choice($.table, $.computation, $.instruction, alias($.nameless, $.instruction)),

    table: ($) =>
      seq(
        field("name", choice("FileNames", "FunctionNames", "FileLocations", "StackFrames")),
        repeat(seq($.integer, choice($.string, $.list), optional(","))),
      ),

    // ---- computations and instructions

    computation: ($) =>
      seq(
        optional("ENTRY"),
        field("name", $._name),
        optional(field("signature", $.signature)),
        field("body", $.body),
        repeat($._attribute),
      ),
    signature: ($) => seq($.parameters, "->", field("result", $._shape)),
    parameters: ($) => seq("(", commaSep($.parameter), ")"),
    parameter: ($) => seq(field("name", $._name), optional(":"), field("shape", $._shape)),
    body: ($) => seq("{", repeat($.instruction), "}"),
    inline_computation: ($) => seq("{", repeat1($.instruction), "}"),

    instruction: ($) =>
      seq(
        optional("ROOT"),
        field("name", $._name),
        "=",
        optional(field("shape", $._shape)),
        $._operation,
      ),
    nameless: ($) => prec.right(seq(field("shape", $._shape), $._operation)),
    _operation: ($) =>
      prec.right(
        seq(
          field("opcode", alias($.identifier, $.opcode)),
          field("operands", $.operands),
          repeat($._attribute),
        ),
      ),

    operands: ($) => seq("(", commaSep(choice($.operand, $._literal)), ")"),
    operand: ($) =>
      choice(
        seq(optional(field("shape", $._shape)), field("name", $._name), repeat($.element)),
        seq(
          optional(field("shape", $._shape)),
          field("opcode", alias($.identifier, $.opcode)),
          field("operands", $.operands),
        ),
        field("shape", $._shape),
      ),
    element: ($) => seq("#", $.integer), // `p#1#0` is element 0 of element 1 of the tuple p

    // ---- shapes

    _shape: ($) => choice($.array_shape, $.tuple_shape, $.buffer_shape),
    array_shape: ($) =>
      prec(
        1, // a word before `[` is an element type
        seq(
          field("type", alias($.identifier, $.element_type)),
          field("dimensions", $.dimensions),
          optional(field("layout", $.layout)),
        ),
      ),
    dimensions: ($) => seq("[", commaSep($._dimension), "]"),
    _dimension: ($) => choice($.integer, seq("<=", $.integer), "?"),
    layout: ($) =>
      prec.dynamic(
        1,
        seq(
          "{",
          choice(
            seq($.integer, repeat(seq(",", $.integer)), optional($._layout_attributes)),
            $._layout_attributes,
          ),
          "}",
        ),
      ),
    _layout_attributes: ($) =>
      seq(":", repeat(choice(alias($.identifier, $.word), "#", "*", $.tuple))),
    tuple_shape: ($) => seq("(", commaSep($._shape), ")"),
    buffer_shape: ($) => seq("b(", $.array_shape, ")"),

    // ---- literals

    _literal: ($) => choice($._number, $.constant, $.literal_list, $.literal_tuple),
    literal_list: ($) => seq("{", repeat(choice($._literal, ",", "...")), "}"),
    literal_tuple: ($) => seq("(", repeat(choice($._literal, ",")), ")"),

    // ---- attributes

    _attribute: ($) => seq(",", $.attribute),
    attribute: ($) =>
      prec.right(
        choice(
          seq(
            field("name", alias($.identifier, $.attribute_name)),
            token.immediate("="),
            field("value", $._value),
            repeat(choice($.list, $.tuple)), // `mesh['x'=2], device_ids=([2]) {'x'}`
          ),
          seq(
            field("name", alias($._dictionary_name, $.attribute_name)),
            token.immediate("="),
            field("value", choice($.dictionary, $.string)),
          ),
        ),
      ),
    _value: ($) =>
      choice(
        $._number,
        $.constant,
        $.dim_labels,
        $.string,
        alias($.identifier, $.word),
        alias($.percent_name, $.name),
        $.array_shape,
        $.buffer_shape,
        $.array,
        $.iota,
        $.mesh,
        $.list,
        $.tuple,
        $.inline_computation,
      ),
    list: ($) => seq("{", repeat($._item), "}"),
    tuple: ($) => seq("(", repeat($._item), ")"),
    array: ($) => seq("[", repeat($._item), "]"),
    _item: ($) => choice($._value, $.property, ",", ":", "->", "...", $.operator),
    property: ($) =>
      seq(
        field("name", alias($.identifier, $.property_name)),
        token.immediate("="),
        field("value", $._value),
      ),
    iota: ($) =>
      prec.right(
        seq($.array, "<=", $.array, optional(seq(token.immediate("T"), $.tuple))),
      ),
    mesh: ($) => seq(choice("mesh[", "maximal_mesh["), repeat($._axis), "]"),
    _axis: ($) => choice(seq($.string, "=", $.integer), $.property, ","),

    // JSON or MLIR: braces balance outside of double quotes, and nothing else counts.
    _dictionary_name: () => choice("backend_config", "frontend_attributes"),
    dictionary: ($) => seq("{", repeat($._entry), "}"),
    _entry: ($) =>
      choice(
        prec(1, seq(alias($.identifier, $.property_name), choice("=", token.immediate("=")))),
        alias($.identifier, $.word),
        alias($._double_quoted, $.string),
        $.dictionary,
        $.constant,
        $._number,
        $.operator,
        choice("(", ")", "[", "]", ",", ":", "=", "'"),
      ),

    // ---- words

    _name: ($) => choice(alias($.identifier, $.name), alias($.percent_name, $.name)),
    identifier: () => IDENTIFIER,
    percent_name: () => token(seq("%", IDENTIFIER)),

    constant: () => choice("true", "false", "nan", "inf"),
    _number: ($) => choice($.integer, $.float, $.sizes, $.padding),
    integer: () => /-?[0-9]+/,
    float: () =>
      token(
        choice(
          /-?[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?/,
          /-?[0-9]+[eE][+-]?[0-9]+/,
          /-\.[0-9]+([eE][+-]?[0-9]+)?/,
          /-?nan\(0x[0-9a-fA-F]+\)/,
          "-nan",
          "-inf",
        ),
      ),
    sizes: () => /[0-9]+(x[0-9]+)+/, // 3x3
    padding: () => new RegExp(`${PADDING}(x${PADDING})*`), // 0_1x0_1
    dim_labels: () => /[0-9bf?][0-9bf?]+_[0-9io?][0-9io?]+->[0-9bf?][0-9bf?]+/,
    string: ($) => choice($._double_quoted, $._single_quoted),
    _double_quoted: () => /"([^"\\]|\\(.|\n))*"/,
    _single_quoted: () => /'([^'\\]|\\(.|\n))*'/,
    operator: () => token(prec(-1, /[^\sA-Za-z0-9_(){}\[\]"',:=]/)),
    comment: () => token(choice(/\/\/[^\r\n]*/, /\/\*([^*]|\*+[^*\/])*\*+\//)),
  },
});
