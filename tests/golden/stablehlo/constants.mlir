module @m {
  func.func @main() -> tensor<3x4xf32> {
    %0 = stablehlo.constant dense<[[1.0, -2.5e+00, 0x7F800000, 0.0]]> : tensor<1x4xf32>
    %1 = stablehlo.constant dense<-0.000000e+00> : tensor<1x4xf32>
    %2 = stablehlo.constant dense<"0x0000803F000000400000404000008040"> : tensor<1x4xf32>
    %3 = stablehlo.concatenate %0, %1, %2, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
    return %3 : tensor<3x4xf32>
  }
}
