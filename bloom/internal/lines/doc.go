// Package lines asks blocked Bloom filters about many hashes at once, and adds many hashes to
// them. It works on the bare bytes of the filters and knows nothing of their files.
//
// A blocked filter is a row of lines. All bits of a key lie in one line, which its hash chooses,
// so a question costs one cache miss if the filter is not in the cache. A caller that asks one
// question after the other waits for some of these misses one by one, because the processor runs
// ahead only as far as it can predict the branches on the answers. Here the lines of the next
// questions are loaded while the ones before are judged, and no branch depends on an answer.
//
// The kernels do the same work with vector instructions: AVX-512 and AVX2 on amd64, NEON on arm64.
// The package chooses one when the program starts, by what the processor has. Each of them gives
// the answers of the functions in Go, which every other machine uses. The build tag purego
// leaves the kernels out.
package lines
