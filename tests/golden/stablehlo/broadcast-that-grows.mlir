module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.slice %a [0:2, 1:2] : (tensor<2x4xf32>) -> tensor<2x1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}
