module @m {
  func.func @main(%a: tensor<2x4xf32>) -> tensor<2x2xi32> {
    %values, %indices = chlo.top_k(%a, k = 2) : tensor<2x4xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
    return %indices : tensor<2x2xi32>
  }
}
