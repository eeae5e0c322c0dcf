module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.add %a, %a : tensor<2x4xf32>
    %1 = stablehlo.maximum %0, %a : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %2 = "stablehlo.abs"(%1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}
