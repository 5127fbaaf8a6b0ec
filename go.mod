module flint

go 1.26.0

require (
	github.com/andybalholm/brotli v1.3.0
	github.com/ardanlabs/jinja v1.8.0
	github.com/cogentcore/webgpu v0.23.0
	github.com/dlclark/regexp2/v2 v2.5.1
	github.com/fsnotify/fsnotify v1.10.1
	github.com/go-rod/rod v0.116.2
	github.com/gogpu/naga v0.17.14
	github.com/hajimehoshi/ebiten/v2 v2.8.8
	github.com/x448/float16 v0.8.4
	golang.org/x/text v0.44.0
	honnef.co/go/js/dom/v2 v2.0.0-20231112215516-51f43a291193
)

require (
	github.com/ebitengine/gomobile v0.0.0-20240911145611-4856209ac325 // indirect
	github.com/ebitengine/hideconsole v1.0.0 // indirect
	github.com/ebitengine/purego v0.8.0 // indirect
	github.com/jezek/xgb v1.1.1 // indirect
	github.com/ysmood/fetchup v0.2.3 // indirect
	github.com/ysmood/goob v0.4.0 // indirect
	github.com/ysmood/got v0.40.0 // indirect
	github.com/ysmood/gson v0.7.3 // indirect
	github.com/ysmood/leakless v0.9.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/sys v0.43.0 // indirect
)
