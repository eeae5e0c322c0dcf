module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %p = stablehlo.constant dense<true> : tensor<i1>
    %lo = stablehlo.constant dense<-1.0> : tensor<f32>
    %hi = stablehlo.constant dense<2.0> : tensor<f32>
    %0 = stablehlo.clamp %lo, %a, %hi : (tensor<f32>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %1 = stablehlo.select %p, %0, %a : tensor<i1>, tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}
