import { isAbsolute, join } from 'node:path';
import { type Asked, type Call, type Intent, smallest, type Tool } from './scenario.ts';

const names: Record<Intent['do'], string[]> = {
  write: ['Write', 'write_file', 'write', 'create_file', 'apply_patch'],
  edit: ['Edit', 'replace', 'edit', 'edit_file', 'apply_patch'],
  read: ['Read', 'read_file', 'read'],
  shell: ['Bash', 'run_shell_command', 'bash', 'exec_command', 'shell_command', 'shell', 'exec'],
};

const places = [
  /<cwd>([^<]+)<\/cwd>/,
  /working directory(?: is)?:?\s*`?(\/[^\s`"'<,]+)/i,
  /Workspace (?:root|folder)[^:\n]*:\s*(\/\S+)/i,
  /Workspace Directories:\*{0,2}\s*-?\s*(\/\S+)/i,
  /current(?:ly)? working (?:in|directory)[^/\n]*(\/[^\s`"'<,]+)/i,
];

/** The working directory that an agent tells its model; null when it does not. */
export function placeOf(asked: Asked): string | null {
  for (const { role, text } of asked.turns) {
    if (role !== 'system' && role !== 'user') continue;
    for (const pattern of places) {
      const found = pattern.exec(text)?.[1];
      if (found) return found.trim().replace(/\.$/, '');
    }
  }
  return null;
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const patch = (intent: Intent): string => {
  if (intent.do === 'write') {
    const lines = intent.content.replace(/\n$/, '').split('\n');
    return `*** Begin Patch\n*** Add File: ${intent.path}\n${lines.map((line) => `+${line}`).join('\n')}\n*** End Patch\n`;
  }
  if (intent.do === 'edit') {
    return `*** Begin Patch\n*** Update File: ${intent.path}\n@@\n-${intent.old}\n+${intent.new}\n*** End Patch\n`;
  }
  return '';
};

/** The same as an intent by means of a shell alone. */
const inShell = (intent: Intent, path: string): string => {
  switch (intent.do) {
    case 'shell':
      return intent.command;
    case 'read':
      return `cat ${quote(path)}`;
    case 'write':
      return `printf %s ${quote(intent.content)} > ${quote(path)}`;
    case 'edit':
      return `sed -i s/${intent.old}/${intent.new}/ ${quote(path)}`;
  }
};

/** The call of an offered tool that does what is meant; null when no tool fits. */
export function callFor(intent: Intent, asked: Asked): Call | null {
  const named = (wanted: string[]): Tool | undefined => {
    for (const name of wanted) {
      const tool = asked.tools.find((one) => one.name === name);
      if (tool) return tool;
    }
    return undefined;
  };
  const place = placeOf(asked);
  const given = 'path' in intent ? intent.path : '';
  const path = isAbsolute(given) || place === null ? given : join(place, given);
  const tool = named(names[intent.do]);
  if (!tool) return intent.do === 'shell' ? null : callFor({ do: 'shell', command: inShell(intent, path) }, asked);
  const { name, namespace } = tool;
  const base = namespace === undefined ? { name } : { name, namespace };
  if (tool.custom) {
    if (name === 'apply_patch') return { ...base, input: patch(intent) };
    const command = JSON.stringify({ cmd: inShell(intent, path) });
    return { ...base, input: `const r = await tools.exec_command(${command}); text(r.output ?? r);` };
  }
  const args: Record<string, unknown> = {};
  for (const [key, schema] of Object.entries(tool.schema.properties ?? {})) {
    if (/^(file_?path|absolute_path|path|filename|file)$/i.test(key) && path !== '') args[key] = path;
    else if (/^(content|contents|file_text|text)$/i.test(key) && 'content' in intent) args[key] = intent.content;
    else if (/^(old(_?(string|str|text))?|search)$/i.test(key) && 'old' in intent) args[key] = intent.old;
    else if (/^(new(_?(string|str|text))?|replace)$/i.test(key) && 'new' in intent) args[key] = intent.new;
    else if (key === 'sandbox_permissions' && 'escalated' in intent) args[key] = 'require_escalated';
    else if (key === 'justification' && 'escalated' in intent) args[key] = 'May this be?';
    else if (/^(command|cmd)$/i.test(key)) {
      const command = inShell(intent, path);
      args[key] = schema.type === 'array' ? ['bash', '-lc', command] : command;
    } else if (tool.schema.required?.includes(key)) args[key] = schema.default ?? smallest(schema);
  }
  return { ...base, args };
}
