module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %k = stablehlo.constant dense<1.0> : tensor<1x1x3x3xf32>
    %0 = stablehlo.reshape %a : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x1x2x4xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x2x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x2x4xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}
