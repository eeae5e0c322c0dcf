module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x2x2xf32> {
    %0 = stablehlo.reshape %a : (tensor<2x4xf32>) -> tensor<2x2x2xf32>
    %1 = stablehlo.dot_general %0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, DEFAULT] : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
    return %1 : tensor<2x2x2xf32>
  }
}
