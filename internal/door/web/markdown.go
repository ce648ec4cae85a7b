package web

import (
	"net/url"
	"slices"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown returns a hostile text as HTML. It has no images and nothing of its own but links, which say where they
// lead.
func markdown(s string) string {
	var b strings.Builder
	if err := marker.Convert([]byte(s), &b); err != nil { // a builder takes anything
		return ""
	}
	return harmless.Sanitize(b.String())
}

var marker = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList),
	goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(tamed{}, 0))),
)

// harmless is what is left of the HTML that marker makes.
var harmless = func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h4", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "table",
		"thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")

	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(false)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true) // with noopener
	return p
}()

// tamed writes the host of a link behind it, and makes links of images. Headings are below those of the page.
type tamed struct{}

// Transform implements [parser.ASTTransformer].
func (tamed) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var links []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // there are no errors
		switch h, isHeading := n.(*ast.Heading); {
		case isHeading:
			h.Level = 4
		case entering && isLink(n):
			links = append(links, n)
		}
		return ast.WalkContinue, nil
	})

	for _, n := range links {
		to := ""
		switch n := n.(type) {
		case *ast.Link:
			to = string(n.Destination)
		case *ast.AutoLink:
			to = string(n.URL(reader.Source()))
		case *ast.Image:
			to = string(n.Destination)
			link := ast.NewLink()
			link.Destination = n.Destination
			for child := n.FirstChild(); child != nil; child = n.FirstChild() {
				link.AppendChild(link, child)
			}

			n.Parent().ReplaceChild(n.Parent(), n, link)
			n.SetParent(nil)
			addHost(link, to)
			continue
		}

		addHost(n, to)
	}
}

func isLink(n ast.Node) bool {
	return slices.Contains([]ast.NodeKind{ast.KindLink, ast.KindImage, ast.KindAutoLink}, n.Kind())
}

// addHost writes behind a link where it leads: its host, or else all of it.
func addHost(link ast.Node, to string) {
	if u, err := url.Parse(to); err == nil && u.Host != "" {
		to = u.Host
	}
	link.Parent().InsertAfter(link.Parent(), link, ast.NewString([]byte(" ("+to+")")))
}
