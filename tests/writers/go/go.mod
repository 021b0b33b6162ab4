module writers

go 1.25.0

require (
	github.com/diskfs/go-diskfs v1.9.4
	github.com/sbinet/npyio v0.9.0
)

require (
	github.com/anchore/go-lzo v0.1.0 // indirect
	github.com/campoy/embedmd v1.0.0 // indirect
	github.com/klauspost/compress v1.18.5 // indirect
	github.com/nlpodyssey/gopickle v0.3.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.26 // indirect
	github.com/pkg/xattr v0.4.12 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/ulikunitz/xz v0.5.15 // indirect
	golang.org/x/sys v0.43.0 // indirect
	golang.org/x/text v0.14.0 // indirect
	gonum.org/v1/gonum v0.14.0 // indirect
)
