package chart

// PageStyle is the style of a page of HTML with figures and tables.
const PageStyle = `:root{color-scheme:light dark}body{margin:0 auto;max-width:1000px;padding:24px 16px 64px;font:15px/1.5 system-ui,sans-serif;` +
	`color:#1f2328;background:#fff}h1{font-size:24px;margin:8px 0}h2{font-size:18px;margin:36px 0 4px}p{max-width:46em}` +
	`.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0}.tiles div{border:1px solid #d8dce0;border-radius:8px;padding:10px 16px;min-width:150px}` +
	`.tiles b{display:block;font-size:22px}.soft{color:#59636e}svg{max-width:100%;height:auto;display:block;margin:8px 0}` +
	`.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;margin:8px 0}` +
	`th,td{padding:3px 10px;text-align:right;border-bottom:1px solid #e4e7ea}th:first-child,td:first-child{text-align:left}` +
	`summary{cursor:pointer;color:#59636e}code{font-size:13px}` +
	`@media(prefers-color-scheme:dark){body{color:#e6eaee;background:#14181d}.soft,summary{color:#a0a8b1}.tiles div{border-color:#3a424b}th,td{border-color:#2b3138}}`
