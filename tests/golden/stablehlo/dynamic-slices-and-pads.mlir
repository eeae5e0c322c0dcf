module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<3x4xf32> {
    %i = stablehlo.constant dense<1> : tensor<i32>
    %z = stablehlo.constant dense<0> : tensor<i32>
    %f = stablehlo.constant dense<9.0> : tensor<f32>
    %0 = stablehlo.dynamic_slice %a, %i, %z, sizes = [1, 4] : (tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
    %1 = stablehlo.dynamic_update_slice %a, %0, %z, %z : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
    %2 = stablehlo.pad %1, %f, low = [0, 1], high = [1, -1], interior = [0, 0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<3x4xf32>
    return %2 : tensor<3x4xf32>
  }
}
