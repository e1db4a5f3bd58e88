-- The health of Bunsen's objects for Argo CD: GitSource, MachineConfigPool, BunsenStatus, Notification and
-- ProvisioningToken. docs/catalogue.md says where to put it.
local function because(status, message)
  return {status = status, message = message or ""}
end
local is = obj.status
if is == nil then
  return because("Progressing", "the controller has not seen it yet")
end
if is.observedGeneration ~= nil and obj.metadata.generation ~= nil and
    is.observedGeneration ~= obj.metadata.generation then
  return because("Progressing", "the controller has not seen the newest change yet")
end
local conditions = {}
for _, c in ipairs(is.conditions or {}) do
  conditions[c.type] = c
end
local function is_true(kind)
  return conditions[kind] ~= nil and conditions[kind].status == "True"
end
local ready = conditions.Ready or {}
for _, kind in ipairs({"Stalled", "Degraded"}) do
  if is_true(kind) then
    return because("Degraded", conditions[kind].message)
  end
end
if obj.spec ~= nil and (obj.spec.suspend or obj.spec.paused) then
  return because("Suspended", ready.message)
end
for _, kind in ipairs({"Reconciling", "Updating"}) do
  if is_true(kind) then
    return because("Progressing", conditions[kind].message)
  end
end
if ready.status ~= nil and ready.status ~= "True" then
  return because(ready.status == "False" and "Degraded" or "Progressing", ready.message)
end
return because("Healthy")
