package cache

type FalsePositives struct{}

func NewFalsePositives(bytes int) *FalsePositives                        { return &FalsePositives{} }
func (f *FalsePositives) Has(table uint64, key []byte, hash uint64) bool { return false }
func (f *FalsePositives) Remember(table uint64, key []byte, hash uint64) {}
func (f *FalsePositives) Forget(table uint64)                            {}
func (f *FalsePositives) Bytes() int                                     { return 0 }
