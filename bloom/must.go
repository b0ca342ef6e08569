package bloom

// Must returns v. It panics with err if there is one. It is for constructors with arguments
// that are written in the program itself:
//
//	var seen = bloom.Must(bloom.NewFilter(bloom.FilterOptions{Keys: 1e6, FPR: 0.001}))
//
// Check the error of arguments that come from outside of the program.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
