;;; hlo-words.el --- Words of HLO text  -*- lexical-binding: t; -*-

;; Generated from hloc's tables: python -m docs.generators.emacs

;;; Code:

(defconst hlo-sections
  '("ENTRY" "FileLocations" "FileNames" "FunctionNames" "HloModule" "ROOT" "StackFrames")
  "Words that begin a part of a module.")

(defconst hlo-constants
  '("false" "inf" "last_tile_dim_replicate" "manual" "maximal" "nan" "replicated" "shard_as"
  "shard_like" "true" "unknown" "unreduced")
  "Words that are values.")

(defconst hlo-opcodes
  '("abs" "acos" "acosh" "add" "add-dependency" "after-all" "all-gather" "all-gather-done"
  "all-gather-start" "all-reduce" "all-reduce-done" "all-reduce-start" "all-to-all" "and"
  "asin" "asinh" "async-done" "async-start" "async-update" "atan2" "atanh" "batch-norm-grad"
  "batch-norm-inference" "batch-norm-training" "bitcast" "bitcast-convert" "broadcast" "call"
  "cbrt" "ceil" "cholesky" "clamp" "collective-broadcast" "collective-permute"
  "collective-permute-done" "collective-permute-start" "compare" "complex" "concatenate"
  "conditional" "constant" "convert" "convolution" "copy" "copy-done" "copy-start" "cosh"
  "cosine" "count-leading-zeros" "custom-call" "divide" "domain" "dot" "dynamic-reshape"
  "dynamic-slice" "dynamic-update-slice" "erf" "exponential" "exponential-minus-one" "fft"
  "floor" "fusion" "gather" "get-dimension-size" "get-tuple-element" "imag" "infeed" "iota"
  "is-finite" "log" "log-plus-one" "logistic" "map" "maximum" "minimum" "mulhi" "multiply"
  "negate" "not" "opt-barrier" "or" "outfeed" "pad" "parameter" "partition-id" "popcnt"
  "power" "ragged-all-to-all" "ragged-dot" "real" "recv" "recv-done" "reduce"
  "reduce-precision" "reduce-scatter" "reduce-window" "remainder" "replica-id" "reshape"
  "reverse" "rng" "rng-bit-generator" "rng-get-and-update-state" "round-nearest-afz"
  "round-nearest-even" "rsqrt" "scaled-dot" "scan" "scatter" "select" "select-and-scatter"
  "send" "send-done" "set-dimension-size" "shift-left" "shift-right-arithmetic"
  "shift-right-logical" "sign" "sine" "sinh" "slice" "sort" "sqrt" "stochastic-convert"
  "subtract" "tan" "tanh" "topk" "transpose" "triangular-solve" "tuple" "while" "xor")
  "Opcodes; each may end in -start, -update or -done.")

(defconst hlo-types
  '("bf16" "c128" "c64" "f16" "f32" "f4e2m1fn" "f64" "f6e2m3fn" "f6e3m2fn" "f8e3m4" "f8e4m3"
  "f8e4m3b11fnuz" "f8e4m3fn" "f8e4m3fnuz" "f8e5m2" "f8e5m2fnuz" "f8e8m0fnu" "opaque" "pred"
  "s1" "s16" "s2" "s32" "s4" "s64" "s8" "token" "u1" "u16" "u2" "u32" "u4" "u64" "u8")
  "Element types.")

(defconst hlo-attributes
  '("algorithm" "alias_passthrough_params" "allow_spmd_sharding_propagation_to_output"
  "allow_spmd_sharding_propagation_to_parameters" "api_version" "async_execution_thread"
  "backend_config" "batch_group_count" "body" "branch_computations" "buffer_donor"
  "called_computations" "calls" "channel_id" "collapsed_slice_dims" "condition"
  "constrain_layout" "control-predecessors" "convolution_kind" "cross_program_prefetch_index"
  "custom_call_has_side_effect" "custom_call_target" "debug_attributes" "deduplicated_name"
  "delta" "dim_labels" "dimensions" "direction" "distribution" "domain" "dynamic_slice_sizes"
  "entry_computation_layout" "epsilon" "execution_thread" "exponent_bits" "false_computation"
  "feature_group_count" "feature_index" "fft_length" "fft_type" "frontend_attributes"
  "has_dynamic_root" "index" "index_vector_dim" "indices_are_sorted" "infeed_config"
  "inferred_dimension" "input_batching_dims" "input_output_alias" "inserted_window_dims"
  "iota_dimension" "is_associative" "is_composite" "is_host_transfer" "is_reverse"
  "is_scheduled" "is_stable" "k" "kind" "largest" "left_side" "lhs_batch_dims"
  "lhs_contracting_dims" "lhs_ragged_dims" "literal" "lower" "mantissa_bits" "metadata"
  "metadata_payload" "mode" "num_carries" "num_partitions" "offset_dims" "op_name" "op_type"
  "operand_batching_dims" "operand_layout_constraints" "operand_precision" "origin"
  "origin_recovery_table" "outfeed_config" "outfeed_shape" "output_to_operand_aliasing"
  "padding" "padding_type" "parameter_replication" "profile_type" "replica_count"
  "replica_groups" "result_accuracy" "rhs_batch_dims" "rhs_contracting_dims" "rhs_group_dims"
  "scatter" "scatter_dims_to_operand_dims" "scatter_indices_batching_dims" "schedule"
  "scheduling_name" "select" "sharding" "slice" "slice_sizes" "source_column"
  "source_end_column" "source_end_line" "source_file" "source_line" "source_target_pairs"
  "sparsity_config" "stack_frame_id" "start_index_map" "start_indices_batching_dims"
  "statistics" "to_apply" "transpose_a" "true_computation" "type" "unique_indices"
  "unit_diagonal" "update_window_dims" "use_global_device_ids" "window")
  "Attributes of instructions and modules.")

(defconst hlo-roles
  '("body" "branch_computations" "called_computations" "calls" "condition" "false_computation"
  "scatter" "select" "to_apply" "true_computation")
  "Attributes that name computations.")
(provide 'hlo-words)
;;; hlo-words.el ends here
