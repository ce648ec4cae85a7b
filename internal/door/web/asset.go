package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"
)

//go:embed asset/*.css asset/*.js asset/*.svg
var assetFiles embed.FS

// asset is a file that pages load. Its name has a hash of what is in it, so browsers keep it for good.
type asset struct {
	content []byte
	kind    string
}

var assets, assetNames = readAssets()

// readAssets returns the files by the names under which they are served, and these names.
func readAssets() (files map[string]asset, names map[string]string) {
	files, names = map[string]asset{}, map[string]string{}
	entries, err := fs.ReadDir(assetFiles, "asset")
	if err != nil {
		panic(err) // they are part of the program
	}

	for _, e := range entries {
		content, err := assetFiles.ReadFile("asset/" + e.Name())
		if err != nil {
			panic(err)
		}

		hash := sha256.Sum256(content)
		extension := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), extension) + "-" + hex.EncodeToString(hash[:6]) + extension
		files[name], names[e.Name()] = asset{content, mime.TypeByExtension(extension)}, name
	}
	return files, names
}

func assetPath(name string) string { return "/assets/" + assetNames[name] }

func serveAsset(c echo.Context) error {
	a, ok := assets[c.Param("name")]
	if !ok {
		return echo.ErrNotFound
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	return c.Blob(http.StatusOK, a.kind, a.content)
}
