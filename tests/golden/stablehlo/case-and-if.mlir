module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %k = stablehlo.constant dense<1> : tensor<i32>
    %0 = "stablehlo.case"(%k) ({
      stablehlo.return %a : tensor<2x4xf32>
    }, {
      %n = stablehlo.negate %a : tensor<2x4xf32>
      stablehlo.return %n : tensor<2x4xf32>
    }) : (tensor<i32>) -> tensor<2x4xf32>
    %p = stablehlo.constant dense<false> : tensor<i1>
    %1 = "stablehlo.if"(%p) ({
      stablehlo.return %a : tensor<2x4xf32>
    }, {
      %n = stablehlo.add %0, %a : tensor<2x4xf32>
      stablehlo.return %n : tensor<2x4xf32>
    }) : (tensor<i1>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}
