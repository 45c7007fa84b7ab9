import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';
import { replyWith, unchanged } from '../bytes.ts';

type Routes = 'listFiles' | 'readFile' | 'writeFile' | 'deleteFile' | 'createTransfer';

export const fileRoutes = ({ files, workspaces }: App): Pick<Handlers, Routes> => ({
  listFiles({ path, query }, { principal, textPaging, signal }) {
    workspaces.use(principal.organization_id, path.workspace_id);
    const { path: folder = '', query: text, recursive = false } = query;
    const wanted = { path: folder, recursive, ...(text === undefined ? {} : { query: text }) };
    return files.list(principal.organization_id, path.workspace_id, wanted, textPaging(), signal);
  },

  async readFile({ path: { workspace_id }, query, headers }, { principal, origin }) {
    const { organization_id } = principal;
    workspaces.use(organization_id, workspace_id);
    if (query.download) {
      const location = origin + (await files.address(organization_id, workspace_id, query.path));
      return { status: 302, headers: { location }, body: null };
    }
    const file = files.open(organization_id, workspace_id, query.path);
    try {
      // Whoever has a large file already is told so, and not how to get it.
      const known = headers['if-none-match'] === undefined ? undefined : unchanged(headers, await file.etag());
      if (known) return known;
      files.assertDirect(file);
      const { bytes, etag } = await file.whole();
      const { name, active } = file;
      const take = (first: number, last: number) => bytes.subarray(first, last + 1);
      return replyWith({ name, active, etag, size: bytes.length }, headers, take);
    } finally {
      file.close();
    }
  },

  writeFile({ path, query, headers, bytes }, { principal }) {
    const asked = {
      organization: principal.organization_id,
      workspace: path.workspace_id,
      path: query.path,
      ifMatch: headers['if-match'],
      ifNoneMatch: headers['if-none-match'],
    };
    files.assertAsked(asked);
    const transfer = query.transfer_id?.toLowerCase();
    files.assertSource(bytes, transfer);
    const flag = headers['x-file-executable'];
    const executable = flag === undefined ? null : flag === 'true';
    return (record) => files.write(asked, { bytes, transfer, executable }, record);
  },

  deleteFile({ path, query, headers }, { principal }) {
    const asked = {
      organization: principal.organization_id,
      workspace: path.workspace_id,
      path: query.path,
      ifMatch: headers['if-match'],
      ifNoneMatch: headers['if-none-match'],
    };
    files.assertAsked(asked);
    return (record) => files.remove(asked, record);
  },

  createTransfer: ({ path, body }, { principal, tx, origin }) =>
    files.createTransfer(tx, principal.organization_id, path.workspace_id, body, origin),
});
