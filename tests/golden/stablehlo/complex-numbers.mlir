module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.complex %a, %a : tensor<2x4xcomplex<f32>>
    %1 = stablehlo.constant dense<(0.0, 1.0)> : tensor<2x4xcomplex<f32>>
    %2 = stablehlo.multiply %0, %1 : tensor<2x4xcomplex<f32>>
    %3 = stablehlo.convert %2 : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }
}
