import mime from 'mime';

/** Source code whose extension means something else to the registry: `.ts` is MPEG there. */
const source =
  /\.(?:[cm]?ts|tsx|jsx|rs|go|py|rb|sh|bash|zsh|c|h|cc|cpp|hpp|java|kt|swift|php|pl|lua|sql|toml|ini|cfg|env|lock|vue|svelte|ex|exs|erl|hs|ml|scala|clj|dart|zig|nim|r|jl|dockerfile|makefile|gitignore|editorconfig)$/i;
const plainNames = /^(?:dockerfile|makefile|readme|license|licence|changelog|\.gitignore|\.editorconfig|\.env)$/i;

/** What kind of content a file name promises. Never taken as a reason to run or show it. */
export const mediaTypeOf = (name: string): string =>
  source.test(name) || plainNames.test(name) ? 'text/plain' : (mime.getType(name) ?? 'application/octet-stream');

/** Kinds that a program would run, or show with scripts in them. */
const active =
  /html|xml|svg|javascript|ecmascript|pdf|shockwave|java|wasm|x-sh|x-csh|ms-|msdownload|flash|mhtml|rfc822|postscript|hta|xslt/i;
const activeNames =
  /\.(?:html?|xhtml|xht|shtml|mht|mhtml|svgz?|xml|xslt?|xsd|rdf|rss|atom|m?js|cjs|mjs|jsx|pdf|swf|wasm|hta|htc|jar|eml|vbs|ps1|bat|cmd|exe|msi|apk|dmg|app|lnk|url|desktop|webloc)$/i;

/** Whether a browser that showed this could be made to run something: such content is only ever saved. */
export const isActive = (name: string): boolean => activeNames.test(name) || active.test(mime.getType(name) ?? '');
