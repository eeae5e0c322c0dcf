module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.negate %a : tensor<2x4xf32>
    %1:2 = stablehlo.optimization_barrier %a, %0 : tensor<2x4xf32>, tensor<2x4xf32>
    %2 = stablehlo.add %1#0, %1#1 : tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}
