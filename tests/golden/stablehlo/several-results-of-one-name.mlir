module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0:2 = func.call @pair(%a) : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
    %1 = stablehlo.subtract %0#0, %0#1 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func private @pair(%arg0: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    %0 = stablehlo.sine %arg0 : tensor<2x4xf32>
    %1 = stablehlo.negate %arg0 : tensor<2x4xf32>
    return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
  }
}
