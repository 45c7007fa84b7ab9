import { Type, type Static } from 'typebox';

/** A name, an address, or `*.` and what names end with; then a port, if it is for one alone. */
const Host = Type.String({
  pattern:
    '^((\\*\\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?(:[0-9]{1,5})?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|\\[[0-9A-Fa-f:.]+\\](:[0-9]{1,5})?)$',
});

export const Network = Type.Union([
  Type.Enum(['allow', 'deny']),
  Type.Object(
    { allowed_hosts: Type.Array(Host, { maxItems: 500 }) },
    { additionalProperties: false, description: 'Exact names and addresses, and `*.example.com` for all below.' },
  ),
]);
export type Network = Static<typeof Network>;

/** A path below the home. */
const Below = Type.String({ pattern: '^[^/](?!.*(^|/)[.][.]?(/|$)).*$' });

/** What a harness needs in a sandbox to work with the user's own login. */
export const LoginSettings = Type.Object(
  {
    write: Type.Optional(Type.Array(Below)),
    copy: Type.Optional(Type.Array(Below)),
    guard: Type.Optional(Type.Array(Below)),
    hosts: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
  },
  {
    additionalProperties: false,
    description:
      'What it needs in the sandbox to work with your own login: folders below your home that it writes, files it gets a copy of, what of these folders it may only read, and hosts.',
  },
);

/** Where the package managers of the usual languages read from. */
const packageHosts = [
  '*.npmjs.org',
  'registry.yarnpkg.com',
  'pypi.org',
  'files.pythonhosted.org',
  'index.crates.io',
  'static.crates.io',
  'proxy.golang.org',
  'sum.golang.org',
  'rubygems.org',
  'index.rubygems.org',
  'repo.maven.apache.org',
  'repo1.maven.org',
  'plugins.gradle.org',
  'services.gradle.org',
  'repo.packagist.org',
  'api.nuget.org',
];

/** The settings `sandbox` of config.toml. */
export const SandboxSettings = Type.Object(
  {
    network: {
      ...Network,
      default: { allowed_hosts: packageHosts },
      description:
        'What a sandboxed run that does not say reaches: "allow" for every public host, "deny" for none, or { allowed_hosts = [..] }; by default where packages come from.',
    },
    program: Type.Optional(Type.String({ description: 'Where bubblewrap is, if not at /usr/bin/bwrap or on PATH.' })),
    unavailable: Type.Enum(['refuse', 'allow'], {
      default: 'refuse',
      description: 'Whether agents may run without a sandbox where this machine has none.',
    }),
  },
  { additionalProperties: false, default: {} },
);
