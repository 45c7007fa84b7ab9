const plain = /^[A-Za-z_/.][A-Za-z0-9_/.@+-]*(?: [A-Za-z0-9_/.@+-]+)*$/;
const words = /^(?:true|false|null|yes|no|on|off|y|n|~|\.inf|\.nan)$/i;

/** A value of JSON as YAML; whatever might be read as something else is quoted as JSON, which YAML understands. */
export function yaml(value: unknown, indent = ''): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return value.map((item) => `${indent}- ${nested(item, `${indent}  `).trimStart()}`).join('\n');
  }
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    if (entries.length === 0) return '{}';
    return entries
      .map(([name, item]) => {
        const text = nested(item, `${indent}  `);
        return `${indent}${scalar(name)}:${text.includes('\n') || isFilled(item) ? `\n${text}` : ` ${text}`}`;
      })
      .join('\n');
  }
  return scalar(value);
}

const isFilled = (value: unknown): boolean =>
  value !== null && typeof value === 'object' && Object.keys(value).length > 0;
const nested = (value: unknown, indent: string): string => (isFilled(value) ? yaml(value, indent) : yaml(value));
const scalar = (value: unknown): string =>
  typeof value === 'string' && plain.test(value) && !words.test(value) ? value : JSON.stringify(value);
