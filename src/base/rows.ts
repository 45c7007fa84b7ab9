/** How a resource's columns become its fields: they bear the wire's names, and only these two kinds need a word. */
export interface Columns<Resource> {
  /** Held as JSON text. */
  json: (keyof Resource)[];
  /** Held as 0 or 1. */
  flags?: (keyof Resource)[];
}

/** Turns rows into resources. Columns that the resource does not name are left out of the SELECT by its store. */
export const reader =
  <Resource>({ json, flags = [] }: Columns<Resource>) =>
  (row: Record<string, unknown>): Resource => {
    for (const name of json as string[]) if (row[name] !== null) row[name] = JSON.parse(row[name] as string);
    for (const name of flags as string[]) row[name] = row[name] === 1;
    return row as Resource;
  };

/** Column values of (part of) a resource: objects as JSON text, booleans as 0 or 1. */
export function toColumns(fields: object): Record<string, string | number | null> {
  const row: Record<string, string | number | null> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (typeof value === 'boolean') row[name] = value ? 1 : 0;
    else
      row[name] =
        typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as string | number | null);
  }
  return row;
}

/** `INSERT INTO table (…) VALUES (…)` for these column values. */
export function insertSql(table: string, row: Record<string, unknown>): string {
  const names = Object.keys(row);
  return `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map((name) => `:${name}`).join(', ')})`;
}

/** `UPDATE table SET … WHERE id = :id` for these column values. */
export function updateSql(table: string, row: Record<string, unknown>): string {
  return `UPDATE ${table} SET ${Object.keys(row)
    .map((name) => `${name} = :${name}`)
    .join(', ')} WHERE id = :id`;
}
